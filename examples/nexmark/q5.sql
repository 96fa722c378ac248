-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The auctions with the most bids in the last ten seconds, every two seconds.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q5 AS
  WITH
    counts AS (SELECT auction, window_end AS ends, COUNT(*) AS num FROM bid GROUP BY HOP(ts, '2 seconds', '10 seconds'), auction),
    tops AS (SELECT window_end AS ends, MAX(num) AS most FROM counts GROUP BY TUMBLE(_ts, '2 seconds'))
  SELECT c.auction, c.num, c.ends FROM counts c [RANGE 1 MICROSECOND], tops t [RANGE 1 MICROSECOND] WHERE c.ends = t.ends AND c.num >= t.most;
