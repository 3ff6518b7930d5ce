-- A script for wrk: posts the same body again and again, and prints one line of JSON.
-- The body is in the file POST_BODY; POST_HEADERS is `Name: value` a line.

local file = assert(io.open(os.getenv("POST_BODY"), "rb"))
wrk.method = "POST"
wrk.body = file:read("*a")
file:close()
for name, value in os.getenv("POST_HEADERS"):gmatch("([^\n:]+): ([^\n]+)") do
  wrk.headers[name] = value
end

function done(summary, latency)
  local errors = summary.errors
  local lost = errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format(
    '{"requests": %d, "duration_us": %d, "p50_us": %d, "p99_us": %d, "lost": %d, "refused": %d}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), lost, errors.status))
end
