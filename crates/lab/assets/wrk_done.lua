
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d %d %d %d\n", summary.requests, summary.duration,
    summary.bytes, e.connect, e.read, e.write, e.status, e.timeout))
  local time, count = 0, 0
  for i = 1, #latency do
    local us, n = latency(i)
    local step = 10 ^ math.max(0, math.floor(math.log10(math.max(us, 1))) - 2)
    local cut = math.floor(us / step) * step
    if cut ~= time and count > 0 then
      io.write(string.format("TIME %d %d\n", time, count))
      count = 0
    end
    time, count = cut, count + n
  end
  io.write(string.format("TIME %d %d\n", time, count))
end
