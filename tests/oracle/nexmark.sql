-- What DuckDB computes over whole files: the answers of examples/nexmark.

-- q0
SELECT auction, bidder, price, ts, extra FROM bid;

-- q1
SELECT auction, bidder, 0.908::DOUBLE * price, ts, extra FROM bid;

-- q2
SELECT auction, price FROM bid WHERE auction % 123 = 0;

-- q3
SELECT name, city, state, a.id FROM auction a, person p WHERE seller = p.id AND category = 10 AND state IN ('or', 'id', 'ca');

-- q4
WITH winners AS (SELECT a.id, a.seller, a.category, max(b.price) AS final, least(a.expires, getvariable('newest')) AS closes FROM auction a, bid b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
    AND a.expires < greatest(getvariable('end_of_bid'), getvariable('end_of_auction')) GROUP BY ALL)
  SELECT category, avg(final) FROM winners GROUP BY category;

-- q5
WITH hops AS (SELECT auction, time_bucket(INTERVAL 2 SECONDS, ts, TIMESTAMP '1970-01-01') + to_seconds(2 * (i + 1)) AS ends FROM bid, range(5) r(i)),
  counts AS (SELECT auction, ends, count(*) AS num FROM hops GROUP BY ALL)
  SELECT auction, num, ends FROM counts c WHERE num >= (SELECT max(num) FROM counts d WHERE d.ends = c.ends) AND ends <= getvariable('end_of_bid');

-- q6
WITH winners AS (SELECT a.id, a.seller, a.category, max(b.price) AS final, least(a.expires, getvariable('newest')) AS closes FROM auction a, bid b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
    AND a.expires < greatest(getvariable('end_of_bid'), getvariable('end_of_auction')) GROUP BY ALL)
  SELECT seller, id, closes, avg(final) OVER (PARTITION BY seller ORDER BY closes, id ROWS BETWEEN 9 PRECEDING AND CURRENT ROW) FROM winners;

-- q7
WITH tops AS (SELECT time_bucket(INTERVAL 10 SECONDS, ts, TIMESTAMP '1970-01-01') AS starts, max(price) AS price FROM bid GROUP BY 1)
  SELECT b.auction, b.price, b.bidder, b.ts FROM bid b, tops t WHERE b.price = t.price AND time_bucket(INTERVAL 10 SECONDS, b.ts, TIMESTAMP '1970-01-01') = starts
  AND starts + INTERVAL 10 SECONDS <= getvariable('end_of_bid');

-- q8
SELECT DISTINCT p.id, p.name, time_bucket(INTERVAL 10 SECONDS, p.ts, TIMESTAMP '1970-01-01') AS starts FROM person p, auction a WHERE p.id = a.seller
  AND starts = time_bucket(INTERVAL 10 SECONDS, a.ts, TIMESTAMP '1970-01-01') AND starts + INTERVAL 10 SECONDS <= getvariable('end_of_auction')
  AND starts + INTERVAL 10 SECONDS <= getvariable('end_of_person');

-- q9
SELECT a.id, item_name, initial_bid, reserve, a.ts, expires, seller, category, b.bidder, b.price, b.ts FROM auction a, bid b
  WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
  QUALIFY ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts, b.filename, b.file_row_number) <= 1;

-- q10
SELECT auction, bidder, price, ts, extra, ts::DATE, date_trunc('minute', ts) FROM bid;

-- q11
WITH gaps AS (SELECT bidder, ts, ts - lag(ts) OVER w > INTERVAL 10 SECONDS AS fresh FROM bid WINDOW w AS (PARTITION BY bidder ORDER BY ts)),
  numbered AS (SELECT bidder, ts, sum(coalesce(fresh, false)::INT) OVER (PARTITION BY bidder ORDER BY ts) AS session FROM gaps),
  sessions AS (SELECT bidder, count(*) AS bids, min(ts) AS starts, max(ts) + INTERVAL 10 SECONDS AS ends FROM numbered GROUP BY bidder, session)
  SELECT * FROM sessions WHERE ends < getvariable('end_of_bid');

-- q12
SELECT * FROM (SELECT bidder, count(*), time_bucket(INTERVAL 10 SECONDS, ts, TIMESTAMP '1970-01-01') AS starts, starts + INTERVAL 10 SECONDS AS ends FROM bid GROUP BY ALL)
  WHERE ends <= getvariable('end_of_bid');

-- q13
SELECT auction, bidder, price, ts, value FROM bid, side WHERE auction % 10000 = key;

-- q14
SELECT auction, bidder, 0.908::DOUBLE * price AS p, CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'day' WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'night'
  ELSE 'other' END, ts, extra, len(extra) - len(replace(extra, 'c', '')) FROM bid WHERE p > 1000000 AND p < 50000000;

-- q15
SELECT date_trunc('day', ts), count(*), count_if(price < 10000), count_if(price >= 10000 AND price < 1000000), count_if(price >= 1000000), count(DISTINCT bidder),
  count(DISTINCT bidder) FILTER (price < 10000), count(DISTINCT auction), count(DISTINCT auction) FILTER (price >= 1000000) FROM bid GROUP BY 1;

-- q16
SELECT channel, date_trunc('day', ts), max(ts), count(*), count_if(price < 10000), count_if(price >= 1000000), count(DISTINCT bidder),
  count(DISTINCT auction) FILTER (price < 10000) FROM bid GROUP BY 1, 2;

-- q17
SELECT auction, date_trunc('day', ts), count(*), count_if(price < 10000), count_if(price >= 1000000), min(price), max(price), avg(price), sum(price)::BIGINT
  FROM bid GROUP BY 1, 2;

-- q18
SELECT auction, bidder, price, channel, url, ts, extra FROM bid
  QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC, filename, file_row_number) <= 1;

-- q19
SELECT auction, bidder, price, channel, url, ts, extra, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, ts, filename, file_row_number) AS place FROM bid
  QUALIFY place <= 10;

-- q20
SELECT b.auction, b.bidder, b.price, b.channel, b.ts, item_name, initial_bid, reserve, expires, seller, category FROM bid b, auction a
  WHERE b.auction = a.id AND category = 10;

-- q21
SELECT auction, bidder, price, channel, CASE channel WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
  ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END FROM bid;

-- q22
SELECT auction, bidder, price, channel, split_part(url, '/', 4), split_part(url, '/', 5), split_part(url, '/', 6) FROM bid;
