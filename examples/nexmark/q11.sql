-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Bids per bidder and session.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q11 AS
  SELECT bidder, COUNT(*) AS bids, window_start, window_end FROM bid GROUP BY SESSION(ts, '10 seconds'), bidder;
