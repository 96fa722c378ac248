-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The winning bid of every auction: the highest one between its begin and its expiry, the oldest of those, as it changes.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');
CREATE STREAM auction (id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP, seller BIGINT,
  category BIGINT, extra STRING) WITH (format = 'parquet', path = 'data/auction', time = 'ts');

CREATE QUERY q9 AS
  SELECT a.id, a.item_name, a.initial_bid, a.reserve, a.ts AS began, a.expires, a.seller, a.category, b.bidder, b.price, b.ts AS at
  FROM auction a, bid b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
  QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts) <= 1;
