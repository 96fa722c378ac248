-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The average price of closed auctions per category, as it changes.
CREATE STREAM auction (id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP, seller BIGINT,
  category BIGINT, extra STRING) WITH (format = 'parquet', path = 'data/auction', time = 'ts', key = 'id');
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');
-- An auction is over when it expires: its highest bid is final then.
CREATE PUNCTUATION ends ON bid (auction) FROM auction (id) AT expires;

CREATE STREAM winners WITH (sequence = 'id') AS
  SELECT a.id, a.seller, a.category, MAX(b.price) AS final FROM auction a, bid b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
  GROUP BY a.id, a.seller, a.category EMIT ON CLOSE;

CREATE QUERY q4 AS SELECT category, AVG(final) AS average FROM winners GROUP BY category;
