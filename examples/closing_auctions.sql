-- data: eddyline generate auction --out data --rate 100 --seconds 300
-- The winning price of every auction, told when the auction closes: a join without windows whose rows leave with their auction.
CREATE STREAM auctions (item_id BIGINT, category STRING, seller BIGINT, reserve DOUBLE, closes TIMESTAMP, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/auctions', time = 'ts', key = 'item_id');
CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/bids', time = 'ts');
-- No bid on an item comes after the instant at which its auction closes. A bid that does is a dead letter.
CREATE PUNCTUATION sold ON bids (item_id) FROM auctions (item_id) AT closes;

CREATE QUERY winners AS
  SELECT a.item_id, COUNT(*) AS bids, MAX(b.price) AS price, ARG_MAX(b.bidder, b.price) AS bidder
  FROM auctions a, bids b
  WHERE a.item_id = b.item_id
  GROUP BY a.item_id
  EMIT ON CLOSE;
