-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The ten highest bids of every auction with their places, as they change.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q19 AS
  SELECT auction, bidder, price, channel, url, ts AS at, extra, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid
  QUALIFY place <= 10;
