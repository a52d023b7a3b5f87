import numpy as np, scipy.stats as st
rng=np.random.default_rng(7)
out=[]
out.append("# Made by `python3 tables.py` (crates/stats/tests/oracle/tables.py) with scipy 1.17.1 and numpy; do not edit.")
def line(k,*v): out.append(k+" "+" ".join(",".join(repr(float(x)) for x in np.atleast_1d(a)) for a in v))
def lehmann(x):
    n=len(x); w=np.sort([(x[i]+x[j])/2 for i in range(n) for j in range(i,n)]); m=np.median(w)
    sd=np.sqrt(n*(n+1)*(2*n+1)/24); q=np.interp([(len(w)-1)/2-sd,(len(w)-1)/2+sd],np.arange(len(w)),w); se=(q[1]-q[0])/2  # Lehmann 1963
    f=min(n-1,max(5,.75*n)); t=st.t.ppf(.975,f)*se; return [m,m-t,m+t,2*st.t.sf(abs(m)/se,f)]
for n in (3,4,5,6,7,9,14,30):
    x=np.round(rng.normal(0.3,1,n),6)
    r=st.wilcoxon(x,method='exact'); line("wilcoxon_exact",x,[r.statistic,r.pvalue])
    line("hodges_lehmann",x,lehmann(x))
x=np.round(rng.normal(0.2,1,60),6); r=st.wilcoxon(x,method='approx',correction=False); line("wilcoxon_normal",x,[r.statistic,r.pvalue])
x=np.round(rng.normal(0.2,1,40),1); r=st.wilcoxon(x[x!=0],method='approx',correction=False); line("wilcoxon_normal",x,[r.statistic,r.pvalue])
for n,q in ((20,.5),(100,.9),(500,.99),(37,.25)):
    x=np.round(np.sort(rng.lognormal(0,1,n)),6)
    r=st.quantile_test(x,p=q); ci=r.confidence_interval(0.95); line("quantile_interval",x,[q,ci.low,ci.high])
for n in (5,12):
    rng.normal(0,1,n) # so that what is drawn below stays as it is
for n in (9,12,30):
    x=np.round(rng.standard_t(2,n),6); line("hodges_lehmann",x,lehmann(x))
for n,m in ((4,4),(5,9),(12,7)):
    a,b=np.round(rng.normal(.4,1,n),6),np.round(rng.normal(0,.3,m),6); w=st.ttest_ind(a,b,equal_var=False); ci=w.confidence_interval(.95)
    line("welch",np.concatenate(([n,m],a,b)),[a.mean()-b.mean(),ci.low,ci.high,w.pvalue])
open("expected.txt","w").write("\n".join(out)+"\n")
