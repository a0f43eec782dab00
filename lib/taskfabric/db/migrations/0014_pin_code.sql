-- What the first PIN after a reset by somebody else is set with: sha256 of a code that went past whoever did that.
ALTER TABLE users ADD COLUMN pin_code bytea;
