-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Prices per auction and day.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q17 AS
  SELECT auction, window_start AS day, COUNT(*) AS total, COUNT(*) FILTER (WHERE price < 10000) AS low,
    COUNT(*) FILTER (WHERE price >= 1000000) AS high, MIN(price) AS least, MAX(price) AS most, AVG(price) AS mean, SUM(price) AS sum
  FROM bid GROUP BY TUMBLE(ts, '1 day'), auction EMIT ON CHANGE;
