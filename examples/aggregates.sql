-- data: eddyline generate auction --out data --rate 100 --seconds 300
-- What is going on now, and what happened in each minute.
CREATE STREAM bids (item_id BIGINT, bidder BIGINT, price DOUBLE, ts TIMESTAMP)
  WITH (format = 'parquet', path = 'data/bids', time = 'ts');

-- Items with at least five bids in the last minute, looked at every thirty seconds of event time.
CREATE QUERY busy AS
  SELECT item_id, COUNT(*) AS bids, MAX(price) AS top, COUNT(DISTINCT bidder) AS bidders
  FROM bids [RANGE 1 MINUTE]
  GROUP BY item_id HAVING COUNT(*) >= 5
  EMIT EVERY 30 SECONDS;

-- One row per minute, when the minute is over.
CREATE QUERY per_minute AS
  SELECT date_trunc('minute', ts) AS minute, COUNT(*) AS bids, SUM(price) AS volume
  FROM bids [RANGE 1 HOUR]
  GROUP BY date_trunc('minute', ts)
  EMIT ON CLOSE;
