-- Foreign tables.  Without file_fdw, the alternative expected file applies.
SELECT count(*) = 0 AS no_file_fdw FROM pg_available_extensions WHERE name = 'file_fdw' \gset
\if :no_file_fdw
\quit
\endif
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
CREATE EXTENSION file_fdw;
RESET client_min_messages;

CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
CREATE FOREIGN TABLE items (id int, v real[]) SERVER files
	OPTIONS (program 'printf ''1\t{1,1}\n2\t{1,1}\n3\t{2,2}\n''');
SELECT * FROM fasted_self_join('items', 'v', 0, id_column => 'id');
SELECT * FROM fasted_self_join('items', 'v', 0);
CREATE FOREIGN TABLE bits (id int, v bit(3)) SERVER files OPTIONS (program 'printf ''1\t101\n2\t100\n3\t010\n''');
SELECT * FROM fasted_self_join('bits', 'v', 1, id_column => 'id', metric => 'hamming');

SET client_min_messages = warning;
DROP EXTENSION file_fdw CASCADE;
