-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Bids with a value from a static table.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');
CREATE TABLE side (key BIGINT, value STRING) WITH (format = 'parquet', path = 'data/side.parquet');

CREATE QUERY q13 AS
  SELECT b.auction, b.bidder, b.price, b.ts AS at, s.value FROM bid b, side s WHERE b.auction % 10000 = s.key;
