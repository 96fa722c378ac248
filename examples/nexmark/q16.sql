-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The same per channel and day.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q16 AS
  SELECT channel, window_start AS day, MAX(ts) AS newest, COUNT(*) AS total,
    COUNT(*) FILTER (WHERE price < 10000) AS low, COUNT(*) FILTER (WHERE price >= 1000000) AS high,
    COUNT(DISTINCT bidder) AS bidders, COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions
  FROM bid GROUP BY TUMBLE(ts, '1 day'), channel EMIT ON CHANGE;
