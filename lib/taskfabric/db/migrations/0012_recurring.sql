-- Cards that come again: which one was before, and which one is next.

ALTER TABLE task_faces ADD COLUMN recurrence_parent bigint, ADD COLUMN recurrence_child bigint;
CREATE INDEX task_faces_recurring ON task_faces (task_id) WHERE recurrence_status = 1;
