-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Bids on some auctions.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q2 AS
  SELECT auction, price FROM bid WHERE auction % 123 = 0;
