-- The queries of NEXMark in Flink's SQL, with the columns of examples/nexmark. A line `-- whole: CONDITION` names the rows whose windows are
-- over when the streams end: Flink closes all windows at the end of a bounded input, this engine those that are over by then.

-- q0
SELECT auction, bidder, price, ts, extra FROM bid;

-- q1
SELECT auction, bidder, 0.908 * price AS price, ts, extra FROM bid;

-- q2
SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0;

-- q3
SELECT P.name, P.city, P.state, A.id FROM auction AS A INNER JOIN person AS P ON A.seller = P.id
WHERE A.category = 10 AND (P.state = 'or' OR P.state = 'id' OR P.state = 'ca');

-- q4
SELECT Q.category, AVG(CAST(Q.final AS DOUBLE)) FROM (
  SELECT MAX(B.price) AS final, A.category FROM auction A, bid B WHERE A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires GROUP BY A.id, A.category
) Q GROUP BY Q.category;

-- q5
-- whole: endtime <= {end_of_bid}
SELECT AuctionBids.auction, AuctionBids.num, AuctionBids.endtime FROM (
  SELECT auction, COUNT(*) AS num, window_start AS starttime, window_end AS endtime
  FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end
) AS AuctionBids JOIN (
  SELECT MAX(CountBids.num) AS maxn, CountBids.starttime, CountBids.endtime FROM (
    SELECT COUNT(*) AS num, window_start AS starttime, window_end AS endtime
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end
  ) AS CountBids GROUP BY CountBids.starttime, CountBids.endtime
) AS MaxBids ON AuctionBids.starttime = MaxBids.starttime AND AuctionBids.endtime = MaxBids.endtime AND AuctionBids.num >= MaxBids.maxn;

-- q7
-- whole: endtime <= {end_of_bid}
SELECT B.auction, B.price, B.bidder, B.ts, B1.endtime FROM bid B JOIN (
  SELECT MAX(price) AS maxprice, window_end AS endtime FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end
) B1 ON B.price = B1.maxprice WHERE B.ts >= B1.endtime - INTERVAL '10' SECOND AND B.ts < B1.endtime;

-- q8
-- whole: endtime <= {end_of_person} AND endtime <= {end_of_auction}
SELECT P.id, P.name, P.starttime, P.endtime FROM (
  SELECT id, name, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end
) P JOIN (
  SELECT seller, window_start AS starttime, window_end AS endtime
  FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY seller, window_start, window_end
) A ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime;

-- q9
SELECT id, item_name, initial_bid, reserve, began, expires, seller, category, bidder, price, ts FROM (
  SELECT A.id, A.item_name, A.initial_bid, A.reserve, A.ts AS began, A.expires, A.seller, A.category, B.bidder, B.price, B.ts,
    ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.ts ASC) AS rownum
  FROM auction A, bid B WHERE A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires
) WHERE rownum <= 1;

-- q10
SELECT auction, bidder, price, ts, extra, DATE_FORMAT(ts, 'yyyy-MM-dd') AS dt, DATE_FORMAT(ts, 'HH:mm') AS hm FROM bid;

-- q11
-- whole: window_end <= {end_of_bid}
SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end;

-- q12
-- whole: window_end <= {end_of_bid}
SELECT bidder, COUNT(*) AS bid_count, window_start, window_end
FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end;

-- q13
SELECT B.auction, B.bidder, B.price, B.ts, S.`value` FROM bid AS B JOIN side AS S ON MOD(B.auction, 10000) = S.`key`;

-- q14
SELECT auction, bidder, 0.908 * price AS price,
  CASE WHEN HOUR(ts) >= 8 AND HOUR(ts) <= 18 THEN 'day' WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'night' ELSE 'other' END AS part_of_day,
  ts, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000;

-- q15
SELECT DATE_FORMAT(ts, 'yyyy-MM-dd') AS `day`, COUNT(*) AS total, COUNT(*) FILTER (WHERE price < 10000) AS low,
  COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle, COUNT(*) FILTER (WHERE price >= 1000000) AS high,
  COUNT(DISTINCT bidder) AS bidders, COUNT(DISTINCT bidder) FILTER (WHERE price < 10000) AS low_bidders,
  COUNT(DISTINCT auction) AS auctions, COUNT(DISTINCT auction) FILTER (WHERE price >= 1000000) AS high_auctions
FROM bid GROUP BY DATE_FORMAT(ts, 'yyyy-MM-dd');

-- q16
SELECT channel, DATE_FORMAT(ts, 'yyyy-MM-dd') AS `day`, MAX(DATE_FORMAT(ts, 'HH:mm')) AS newest, COUNT(*) AS total,
  COUNT(*) FILTER (WHERE price < 10000) AS low, COUNT(*) FILTER (WHERE price >= 1000000) AS high,
  COUNT(DISTINCT bidder) AS bidders, COUNT(DISTINCT auction) FILTER (WHERE price < 10000) AS low_auctions
FROM bid GROUP BY channel, DATE_FORMAT(ts, 'yyyy-MM-dd');

-- q17
SELECT auction, DATE_FORMAT(ts, 'yyyy-MM-dd') AS `day`, COUNT(*) AS total, COUNT(*) FILTER (WHERE price < 10000) AS low,
  COUNT(*) FILTER (WHERE price >= 1000000) AS high, MIN(price) AS least, MAX(price) AS most, AVG(CAST(price AS DOUBLE)) AS mean, SUM(price) AS total_price
FROM bid GROUP BY auction, DATE_FORMAT(ts, 'yyyy-MM-dd');

-- q18
SELECT auction, bidder, price, channel, url, ts, extra FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS rank_number FROM bid
) WHERE rank_number <= 1;

-- q19
SELECT auction, bidder, price, channel, url, ts, extra, rank_number FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid
) WHERE rank_number <= 10;

-- q20
SELECT B.auction, B.bidder, B.price, B.channel, B.ts, A.item_name, A.initial_bid, A.reserve, A.expires, A.seller, A.category
FROM bid AS B INNER JOIN auction AS A ON B.auction = A.id WHERE A.category = 10;

-- q21
SELECT auction, bidder, price, channel,
  CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' THEN '1' WHEN LOWER(channel) = 'facebook' THEN '2'
       WHEN LOWER(channel) = 'baidu' THEN '3' ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
FROM bid WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu');

-- q22
SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1, SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid;
