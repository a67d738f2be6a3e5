-- What the log is searched by. The status has no index on purpose: it changes once in every email's life, and an index on it
-- would make that a change of all the others. Times need none: they are in the id.
ALTER TABLE emails
  ADD COLUMN from_address text NOT NULL DEFAULT '',
  ADD COLUMN from_domain text NOT NULL DEFAULT '',
  ADD COLUMN recipient_addresses text[] NOT NULL DEFAULT '{}';
CREATE INDEX emails_account_id_from_address_id_idx ON emails (account_id, from_address, id DESC);
CREATE INDEX emails_account_id_from_domain_id_idx ON emails (account_id, from_domain, id DESC);
CREATE INDEX emails_tags_idx ON emails USING gin (tags);
CREATE INDEX emails_recipient_addresses_idx ON emails USING gin (recipient_addresses);
CREATE INDEX emails_subject_words_idx ON emails USING gin (to_tsvector('simple', subject));
