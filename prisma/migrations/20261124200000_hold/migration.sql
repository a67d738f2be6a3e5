-- One row while nothing is to be sent, as after the database was restored from a backup.
CREATE TABLE service_hold (
  id smallint PRIMARY KEY DEFAULT 1 CHECK (id = 1),
  since timestamptz(3) NOT NULL DEFAULT now()
);
