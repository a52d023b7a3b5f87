import numpy as np, scipy.stats as st
rng=np.random.default_rng(7)
out=[]
out.append("# Made by `python3 tables.py` (crates/stats/tests/oracle/tables.py) with scipy 1.17.1 and numpy; do not edit.")
def line(k,*v): out.append(k+" "+" ".join(",".join(repr(float(x)) for x in np.atleast_1d(a)) for a in v))
for n in (3,4,5,6,7,9,14,30):
    x=np.round(rng.normal(0.3,1,n),6)
    r=st.wilcoxon(x,method='exact'); line("wilcoxon_exact",x,[r.statistic,r.pvalue])
    t=st.ttest_1samp(x,0); ci=t.confidence_interval(0.95); line("t_interval",x,[x.mean(),ci.low,ci.high,t.pvalue])
x=np.round(rng.normal(0.2,1,60),6); r=st.wilcoxon(x,method='approx',correction=False); line("wilcoxon_normal",x,[r.statistic,r.pvalue])
x=np.round(rng.normal(0.2,1,40),1); r=st.wilcoxon(x[x!=0],method='approx',correction=False); line("wilcoxon_normal",x,[r.statistic,r.pvalue])
for n,q in ((20,.5),(100,.9),(500,.99),(37,.25)):
    x=np.round(np.sort(rng.lognormal(0,1,n)),6)
    r=st.quantile_test(x,p=q); ci=r.confidence_interval(0.95); line("quantile_interval",x,[q,ci.low,ci.high])
for n in (5,12):
    rng.normal(0,1,n) # so that what is drawn below stays as it is
p=np.array([.01,.04,.03,.005,.5])
from scipy.stats import false_discovery_control
o=np.argsort(p); m=len(p); adj=np.empty(m); run=0
for k,i in enumerate(o): run=max(run,(m-k)*p[i]); adj[i]=min(1,run)
line("holm",p,adj)
from scipy.stats import mstats
for n in (9,12,30):
    x=np.round(rng.standard_t(2,n),6); m=st.trim_mean(x,.2); h=n-2*int(.2*n)
    se=np.sqrt(mstats.winsorize(x,(.2,.2)).var(ddof=1)*(n-1)/(h*(h-1)))  # Yuen 1974
    t=st.t.ppf(.975,h-1)*se; line("trimmed_interval",x,[m,m-t,m+t,2*st.t.sf(abs(m)/se,h-1)])
for n,m in ((4,4),(5,9),(12,7)):
    a,b=np.round(rng.normal(.4,1,n),6),np.round(rng.normal(0,.3,m),6); w=st.ttest_ind(a,b,equal_var=False); ci=w.confidence_interval(.95)
    line("welch",np.concatenate(([n,m],a,b)),[a.mean()-b.mean(),ci.low,ci.high,w.pvalue])
open("expected.txt","w").write("\n".join(out)+"\n")
