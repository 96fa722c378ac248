-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Every bid, as it is.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q0 AS
  SELECT auction, bidder, price, ts AS at, extra FROM bid;
