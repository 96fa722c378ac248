-- data: python examples/fraud/generate.py
-- Card payments, and nine queries that look for fraud. docs/fraud.md explains them.
-- An epoch of 500 rows is 15 minutes of these payments, so that a row of half an hour ago is late.
SET epoch_rows = 500;

CREATE STREAM transactions (id BIGINT, card BIGINT, amount DECIMAL(10, 2), kind STRING, country STRING, ts TIMESTAMP)
  WITH (format = 'csv', path = 'data/transactions.csv', time = 'ts', lateness = '5 seconds');
CREATE STREAM confirmations (id BIGINT, ts TIMESTAMP)
  WITH (format = 'csv', path = 'data/confirmations.csv', time = 'ts');
CREATE TABLE cards (card BIGINT, home STRING, ceiling DECIMAL(10, 2)) WITH (format = 'csv', path = 'data/cards.csv');

-- Large payments on the internet.
CREATE QUERY large AS
  SELECT id, card, amount, country FROM transactions WHERE kind = 'online' AND amount > 400;

-- Payments and turnover of each country in every half hour.
CREATE QUERY turnover AS
  SELECT window_start, country, COUNT(*) AS payments, SUM(amount) AS total, MAX(amount) AS largest
  FROM transactions GROUP BY TUMBLE(ts, '30 minutes'), country;

-- Payments abroad above the ceiling of their card.
CREATE QUERY abroad AS
  SELECT t.id, t.card, t.amount, t.country, c.home
  FROM transactions t, cards c
  WHERE t.card = c.card AND t.country <> c.home AND t.amount > c.ceiling;

-- Payments of more than fifty times the payment before them of the same card.
CREATE QUERY jumps AS
  SELECT id, card, before, amount
  FROM (SELECT id, card, amount, LAG(amount) OVER (PARTITION BY card ORDER BY ts) AS before FROM transactions) x
  WHERE amount > 50 * before;

-- Each payment once: one that was sent again has the same id.
CREATE QUERY once AS
  SELECT id, card, amount FROM transactions QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) = 1;

-- A card is tried with less than two, and then charged with more than 250 within ten minutes, without its PIN between.
CREATE QUERY tried AS
  EVENT SEQ(online[amount < 2] trial, NOT(pin), online[amount > 250] charge)
  FROM transactions TYPE kind PARTITION BY card WITHIN 10 MINUTES
  RETURN card, trial.id AS trial, charge.id AS charge, charge.amount AS amount;

-- Payments of more than 500 that their holder has not confirmed within ten minutes.
CREATE QUERY unconfirmed AS
  SELECT t.id, t.card, t.amount
  FROM transactions [RANGE 10 MINUTES] t LEFT JOIN confirmations [RANGE 10 MINUTES] c ON t.id = c.id
  WHERE t.amount > 500 AND c.id IS NULL;

-- Every ten minutes: cards with at least twelve payments in the last hour.
CREATE QUERY busy AS
  SELECT card, COUNT(*) AS payments, SUM(amount) AS total
  FROM transactions [RANGE 1 HOUR] GROUP BY card HAVING COUNT(*) >= 12 EMIT EVERY 10 MINUTES;

-- Answers to auditors: what a card has spent in the last six hours, by kind, at the instant of each audit.
CREATE TEMPLATE spending AS
  SELECT card, kind, COUNT(*) AS payments, SUM(amount) AS total FROM transactions [RANGE 6 HOURS] GROUP BY card, kind;
CREATE REQUESTS audits (audit BIGINT, card BIGINT, ts TIMESTAMP) FOR spending
  WITH (format = 'csv', path = 'data/audits.csv', time = 'ts');
