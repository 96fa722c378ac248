-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Every bid with its day and minute, as a log that is cut by them.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q10 AS
  SELECT auction, bidder, price, ts AS at, extra, CAST(ts AS DATE) AS day, date_trunc('minute', ts) AS minute FROM bid;
