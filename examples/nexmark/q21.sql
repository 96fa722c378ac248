-- data: eddyline generate nexmark --out data --rate 1000 --seconds 60
-- The number of the channel, from its name or from the link.
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP, extra STRING)
  WITH (format = 'parquet', path = 'data/bid', time = 'ts');

CREATE QUERY q21 AS
  SELECT auction, bidder, price, channel,
    CASE WHEN channel = 'apple' THEN '0' WHEN channel = 'google' THEN '1' WHEN channel = 'facebook' THEN '2' WHEN channel = 'baidu' THEN '3'
         ELSE split_part(split_part(url, 'channel_id=', 2), '&', 1) END AS channel_id
  FROM bid WHERE url LIKE '%channel_id=%' OR channel IN ('apple', 'google', 'facebook', 'baidu');
