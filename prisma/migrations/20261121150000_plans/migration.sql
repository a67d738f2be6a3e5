-- What the account has used of its plan stands in its own row: charging is one statement under that row's lock.
ALTER TABLE accounts
  ADD COLUMN suspended_at timestamptz(3),
  ADD COLUMN credit numeric(14, 2) NOT NULL DEFAULT 0 CHECK (credit >= 0),
  ADD COLUMN usage_day date,
  ADD COLUMN usage_day_count integer NOT NULL DEFAULT 0,
  ADD COLUMN usage_month date,
  ADD COLUMN usage_month_count integer NOT NULL DEFAULT 0;
