-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The highest bids of every ten seconds.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q7 AS
  WITH tops AS (SELECT window_end AS ends, MAX(price) AS price FROM bid GROUP BY TUMBLE(ts, '10 seconds'))
  SELECT b.auction, b.price, b.bidder, b.ts AS at FROM bid b [RANGE 10 SECONDS], tops t [RANGE 10 SECONDS]
  WHERE b.price = t.price AND b.ts >= t.ends - INTERVAL '10 seconds' AND b.ts < t.ends;
