-- data: eddyline generate auction --out data --rate 100 --seconds 300
-- Queries over queries: a stream of results, an outer join over it, group windows, and the first rows of each window.
CREATE STREAM auctions (item_id BIGINT, category STRING, seller BIGINT, reserve DOUBLE, closes TIMESTAMP, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/auctions', time = 'ts');
CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/bids', time = 'ts');

-- Bids over 50: computed once, for both queries that read it.
CREATE STREAM large AS SELECT item_id, bidder, price FROM bids WHERE price > 50;

-- Auctions without a large bid within a minute of their beginning. Each is told when that minute has passed.
CREATE QUERY ignored AS
  SELECT a.item_id, a.category
  FROM auctions [RANGE 1 MINUTE] a LEFT JOIN large [RANGE 1 MINUTE] l ON a.item_id = l.item_id
  WHERE l.item_id IS NULL;

-- The three items with the most large bids in every minute.
CREATE QUERY busiest AS
  SELECT window_start, item_id, COUNT(*) AS bids
  FROM large
  GROUP BY TUMBLE(_ts, '1 minute'), item_id
  QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY COUNT(*) DESC, item_id) <= 3;
