-- The nine queries of examples/fraud/fraud.sql in DuckDB, over the files as they are.

-- setup
SET threads = 1;
CREATE TABLE arrived AS
  SELECT row_number() OVER () AS line, * FROM read_csv('data/transactions.csv', all_varchar = true, parallel = false);
-- What fits the declared types.
CREATE TABLE readable AS
  SELECT line, CAST(id AS BIGINT) AS id, CAST(card AS BIGINT) AS card, CAST(amount AS DECIMAL(10, 2)) AS amount, kind, country,
    CAST(ts AS TIMESTAMP) AS ts
  FROM arrived WHERE regexp_full_match(amount, '[0-9]+\.[0-9][0-9]') AND ts IS NOT NULL;
-- What came within the lateness: a row is either at most four seconds out of order, or half an hour.
CREATE TABLE transactions AS
  SELECT * FROM readable
  QUALIFY ts >= max(ts) OVER (ORDER BY line ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - INTERVAL 5 SECONDS;
CREATE TABLE confirmations AS SELECT id, ts FROM read_csv('data/confirmations.csv');
CREATE TABLE cards AS SELECT card, home, CAST(ceiling AS DECIMAL(10, 2)) AS ceiling FROM read_csv('data/cards.csv', all_varchar = true);
CREATE TABLE asked AS SELECT audit, card, ts FROM read_csv('data/audits.csv');

-- large
SELECT id, card, amount, country, ts AS _ts FROM transactions WHERE kind = 'online' AND amount > 400;

-- turnover
SELECT time_bucket(INTERVAL 30 MINUTES, ts) AS window_start, country, count(*), sum(amount), max(amount), '+',
  window_start + INTERVAL 30 MINUTES - INTERVAL 1 MICROSECOND AS _ts
FROM transactions GROUP BY window_start, country;

-- abroad
SELECT t.id, t.card, t.amount, t.country, c.home, t.ts AS _ts
FROM transactions t, cards c WHERE CAST(c.card AS BIGINT) = t.card AND t.country <> c.home AND t.amount > c.ceiling;

-- jumps
SELECT id, card, before, amount, ts AS _ts
FROM (SELECT *, lag(amount) OVER (PARTITION BY card ORDER BY ts, line) AS before FROM transactions) x
WHERE amount > 50 * before;

-- once
SELECT id, card, amount, '+' FROM transactions QUALIFY row_number() OVER (PARTITION BY id ORDER BY ts, line) = 1;

-- tried
SELECT a.card, a.id AS trial, b.id AS charge, b.amount, b.ts AS _ts
FROM transactions a, transactions b
WHERE a.card = b.card AND a.kind = 'online' AND a.amount < 2 AND b.kind = 'online' AND b.amount > 250
  AND (a.ts, a.line) < (b.ts, b.line) AND b.ts - a.ts <= INTERVAL 10 MINUTES
  AND NOT EXISTS (SELECT 1 FROM transactions p
                  WHERE p.card = a.card AND p.kind = 'pin' AND (a.ts, a.line) < (p.ts, p.line) AND (p.ts, p.line) < (b.ts, b.line));

-- unconfirmed
SELECT t.id, t.card, t.amount, t.ts + INTERVAL 10 MINUTES AS _ts
FROM transactions t
WHERE t.amount > 500
  AND NOT EXISTS (SELECT 1 FROM confirmations c WHERE c.id = t.id AND abs(epoch_us(c.ts) - epoch_us(t.ts)) <= 600000000);

-- busy
WITH instants AS (
  SELECT unnest(generate_series((SELECT min(ts) FROM transactions), (SELECT max(ts) + INTERVAL 10 MINUTES FROM transactions), INTERVAL 10 MINUTES)) AS about),
held AS (
  SELECT time_bucket(INTERVAL 10 MINUTES, i.about) AS now, t.card, count(*) AS payments, sum(t.amount) AS total
  FROM instants i JOIN transactions t
    ON t.ts <= time_bucket(INTERVAL 10 MINUTES, i.about) AND t.ts >= time_bucket(INTERVAL 10 MINUTES, i.about) - INTERVAL 1 HOUR
  GROUP BY now, t.card HAVING count(*) >= 12)
SELECT coalesce(n.card, o.card), n.payments, n.total, CASE WHEN n.card IS NULL THEN '-' ELSE '+' END,
  coalesce(n.now, o.now + INTERVAL 10 MINUTES) AS _ts
FROM held n FULL JOIN held o ON n.card = o.card AND n.now = o.now + INTERVAL 10 MINUTES
WHERE n.card IS NULL OR o.card IS NULL OR n.payments <> o.payments OR n.total <> o.total;

-- audits
SELECT a.audit, a.card, t.kind, count(*), sum(t.amount), a.ts AS _ts
FROM asked a JOIN transactions t ON t.card = a.card AND t.ts <= a.ts AND t.ts >= a.ts - INTERVAL 6 HOURS
GROUP BY a.audit, a.card, t.kind, a.ts;
