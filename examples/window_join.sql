-- data: eddyline generate auction --out data --rate 100 --seconds 120
-- Bids over 50 on auctions of the last minute, with the VAT of the category.
CREATE STREAM auctions (item_id BIGINT, category STRING, seller BIGINT, reserve DOUBLE, closes TIMESTAMP, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/auctions', time = 'ts');
CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/bids', time = 'ts');
CREATE TABLE categories (category STRING, vat DOUBLE) WITH (format = 'parquet', path = 'data/categories.parquet');

CREATE QUERY big_bids AS
  SELECT a.item_id, a.category, b.bidder, b.price * (1 + c.vat) AS gross
  FROM auctions [RANGE 1 MINUTE] a, bids [RANGE 1 MINUTE] b, categories c
  WHERE a.item_id = b.item_id AND a.category = c.category AND b.price > 50;
