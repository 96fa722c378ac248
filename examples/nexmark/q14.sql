-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Dear bids, with the time of day and how often a letter stands in a text.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q14 AS
  SELECT auction, bidder, 0.908 * price AS price,
    CASE WHEN hour(ts) >= 8 AND hour(ts) <= 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night' ELSE 'other' END AS part_of_day,
    ts AS at, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
  FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;
