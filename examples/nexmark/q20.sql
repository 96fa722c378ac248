-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Bids on auctions of a category, without windows.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');
CREATE STREAM auction (id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP, seller BIGINT,
  category BIGINT, extra STRING) WITH (format = 'parquet', path = 'data/auction', time = 'ts');

CREATE QUERY q20 AS
  SELECT b.auction, b.bidder, b.price, b.channel, b.ts AS at, a.item_name, a.initial_bid, a.reserve, a.expires, a.seller, a.category
  FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10;
