-- What callers over A2A wait for and nobody works on: the server looks for those that it runs itself.
CREATE INDEX tasks_a2a_ready ON tasks (project_id) WHERE a2a AND status = 'ready';
