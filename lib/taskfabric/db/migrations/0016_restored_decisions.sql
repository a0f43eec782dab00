-- After a restore the copy does not know what was used, denied or revoked since. So what it holds as allowed is asked for
-- anew: no decision is used a second time, and no grant that was revoked is alive again.
CREATE FUNCTION fabric_end_decisions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE approvals SET use_until = least(use_until, fabric_now())
     WHERE state IN ('approved', 'edited-approved') AND consumed_at IS NULL;
    UPDATE grants SET revoked_at = fabric_now() WHERE revoked_at IS NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER restores_end_decisions AFTER INSERT ON restores FOR EACH ROW EXECUTE FUNCTION fabric_end_decisions();
