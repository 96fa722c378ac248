-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- Bids, bidders and auctions per day, by price.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q15 AS
  SELECT window_start AS day, COUNT(*) AS total,
    COUNT(*) FILTER (WHERE price < 10000) AS low, COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
    COUNT(*) FILTER (WHERE price >= 1000000) AS high, COUNT(DISTINCT bidder) AS bidders,
    COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders, COUNT(DISTINCT auction) AS auctions,
    COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
  FROM bid GROUP BY TUMBLE(ts, '1 day') EMIT ON CHANGE;
