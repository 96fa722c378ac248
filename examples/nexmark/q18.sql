-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The last bid of every bidder on every auction, as it changes.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q18 AS
  SELECT auction, bidder, price, channel, url, ts AS at, extra FROM bid
  QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) <= 1;
