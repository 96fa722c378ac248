-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The folders of the link.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q22 AS
  SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid;
