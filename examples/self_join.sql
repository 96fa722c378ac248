-- data: eddyline generate auction --out data --rate 100 --seconds 120 --bidders 200
-- A bidder who raises his own bid within thirty seconds. The newer of the two rows makes the result, whichever is x or y.
CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/bids', time = 'ts');

CREATE QUERY raised AS
  SELECT x.item_id, x.bidder, x.price AS first_price, y.price AS second_price
  FROM bids [RANGE 30 SECONDS] x, bids [RANGE 30 SECONDS] y
  WHERE x.item_id = y.item_id AND x.bidder = y.bidder AND x.price < y.price AND x.ts < y.ts;
