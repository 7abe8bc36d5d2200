# A join reads the relation that it was given, even if schemas are renamed while it
# is planned: renaming a schema does not lock its tables.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $seconds = $ENV{FASTED_RENAME_SECONDS} // 6;
my $node = new_node('renames');
$node->safe_psql('postgres', <<'END_SQL');
CREATE SCHEMA sa;
CREATE TABLE sa.t (id int PRIMARY KEY, v real[]);
INSERT INTO sa.t SELECT i, ARRAY[i, 0, 0, 0]::real[] FROM generate_series(1, 5) AS i;
CREATE SCHEMA sb;
CREATE TABLE sb.t (id int PRIMARY KEY, v float8[]);
INSERT INTO sb.t SELECT i, ARRAY[i / 8.0, 0, 0, 0] FROM generate_series(1, 5) AS i;
CREATE SCHEMA sc;
CREATE TABLE sc.t (id int PRIMARY KEY, v bigint);
INSERT INTO sc.t SELECT i, -1 FROM generate_series(1, 5) AS i;

-- The names go round: what is sa.t at one moment is sb.t or sc.t at the next.
CREATE PROCEDURE rename(seconds int) LANGUAGE plpgsql AS $$
DECLARE
	till timestamptz := clock_timestamp() + seconds * interval '1 s';
BEGIN
	WHILE clock_timestamp() < till LOOP
		ALTER SCHEMA sa RENAME TO aside;
		ALTER SCHEMA sb RENAME TO sa;
		ALTER SCHEMA sc RENAME TO sb;
		ALTER SCHEMA aside RENAME TO sc;
		COMMIT;
	END LOOP;
END $$;
CREATE TABLE seen (total float8, times bigint);
CREATE PROCEDURE join_meanwhile(items regclass, seconds int) LANGUAGE plpgsql AS $$
DECLARE
	till timestamptz := clock_timestamp() + seconds * interval '1 s';
	total float8;
BEGIN
	WHILE clock_timestamp() < till LOOP
		SELECT sum(dist) INTO total FROM fasted_self_join(items, 'v', 1);
		INSERT INTO seen VALUES (total, 1);
		COMMIT;
	END LOOP;
END $$;
END_SQL
my $oid = $node->safe_psql('postgres', "SELECT 'sa.t'::regclass::oid");

my $renamer = FastedTest::Session->new($node);
my $joiner = FastedTest::Session->new($node);
$renamer->send("CALL rename($seconds + 1);");
$joiner->send("CALL join_meanwhile($oid, $seconds);");
my ($end) = $joiner->query('SELECT 1');
like($end, qr/^1$/m, 'the joining session is alive');
unlike($joiner->{err} // '', qr/ERROR/, 'the joining session has no error');
$renamer->query('SELECT 1');
$_->quit for $renamer, $joiner;

cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM seen'), '>', 10, 'joins were run');
is($node->safe_psql('postgres', 'SELECT DISTINCT total FROM seen'), 4, 'each join has the distances of its own table');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/terminated by signal|ERROR:/, 'no process failed');

$node->stop;
done_testing();
