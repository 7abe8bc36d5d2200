# An exclusion constraint keeps similar rows out: concurrent writers insert rows of which many are near
# rows of others.  No two rows that conflict are committed, and each row that is missing conflicts
# with a committed one.
#
#	FASTED_QUICK=1		inserts fewer rows
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $writers = 32;
my $rows = ($ENV{FASTED_QUICK} ? 6400 : 100000) / $writers;

# a deadlock of two rows that wait for each other is not an error of the constraint: the row is tried again
my $node = new_node('constraint', "deadlock_timeout = '10ms'\nmax_connections = 40\n");
$node->safe_psql('postgres', <<"END");
SELECT setseed(0.5);
CREATE TABLE planned (writer int, n int, v real[], PRIMARY KEY (writer, n));
-- two of three rows of a writer are random; the third is one of  common vectors, moved by less than the sum of two radii
INSERT INTO planned SELECT w, n, array_agg(CASE WHEN (n + w) % 3 > 0 THEN random() * 4 ELSE sin(n * k) + random() * 0.05 END)
FROM generate_series(1, $writers) w, generate_series(1, $rows) n, generate_series(1, 12) k GROUP BY w, n ORDER BY w, n;
CREATE TABLE docs (writer int, n int, v real[], EXCLUDE USING fasted (fasted_ball(v, 0.15) WITH &&));
CREATE TABLE refused (writer int, n int);
CREATE PROCEDURE write_rows(w int) LANGUAGE plpgsql AS \$\$
DECLARE
	row planned;
	done boolean;
BEGIN
	FOR row IN SELECT * FROM planned WHERE writer = w ORDER BY n LOOP
		done := false;
		WHILE NOT done LOOP
			BEGIN
				IF w % 2 = 0 THEN
					INSERT INTO docs VALUES (row.writer, row.n, row.v) ON CONFLICT DO NOTHING;
				ELSE
					INSERT INTO docs VALUES (row.writer, row.n, row.v);
				END IF;
				done := true;
			EXCEPTION WHEN exclusion_violation THEN
				INSERT INTO refused VALUES (row.writer, row.n);
				done := true;
			WHEN deadlock_detected THEN
				NULL;
			END;
			COMMIT;
		END LOOP;
	END LOOP;
END \$\$;
END

my @sessions = map { FastedTest::Session->new($node) } 1 .. $writers;
$sessions[ $_ - 1 ]->send("CALL write_rows($_);\n\\echo over") for 1 .. $writers;
for (@sessions)
{
	$_->wait_for(qr/^over$/m);
	is($_->{err}, '', 'a writer reports no error');
	$_->quit;
}

my $overlap = 'fasted_ball(a.v, 0.15) && fasted_ball(b.v, 0.15)';
is($node->safe_psql('postgres', "SELECT count(*) FROM docs a JOIN docs b ON (a.writer, a.n) < (b.writer, b.n) AND $overlap"), '0',
	'no two committed rows conflict');
is($node->safe_psql('postgres', "SELECT count(*) FROM planned a WHERE NOT EXISTS (SELECT FROM docs b WHERE (a.writer, a.n) = (b.writer, b.n))
	AND NOT EXISTS (SELECT FROM docs b WHERE $overlap)"), '0', 'each missing row conflicts with a committed one');
is($node->safe_psql('postgres', 'SELECT count(*) FROM refused JOIN docs USING (writer, n)'), '0', 'no refused row is committed');
is($node->safe_psql('postgres', "SELECT count(*) >= 2 * $writers * $rows / 3 AND count(*) < $writers * $rows, (SELECT count(*) > 0 FROM refused) FROM docs"),
	't|t', 'rows were inserted, and refused');
$node->stop;
done_testing();
