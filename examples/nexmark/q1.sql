-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Prices in another currency.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q1 AS
  SELECT auction, bidder, 0.908 * price AS price, ts AS at, extra FROM bid;
