# Rows change during a join: the result is right, or there is a serialization failure.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../test/t";
use CitusCluster;
use FastedTest;
use Test::More;

my ($node, @workers) = new_cluster('writes');

sub sql { my ($sql) = @_; return $node->safe_psql('postgres', $sql); }

sql(<<'END');
CREATE TABLE items (id int PRIMARY KEY, v real[]);
SELECT create_distributed_table('items', 'id');
INSERT INTO items SELECT i, ARRAY[i % 100 * 10] FROM generate_series(1, 2000) i;
END
my $count = "SELECT count(*) FROM fasted_self_join('items', 'v', 1)";
my $pairs = 100 * 20 * 19 / 2;
is(sql($count), $pairs, 'without concurrent writes');

# --- within the transaction

is(sql("BEGIN; INSERT INTO items VALUES (2001, '{-50}'), (2002, '{-50}');
	$count; ROLLBACK"), $pairs + 1, "a transaction's own rows are joined");
is(sql("BEGIN; CREATE TABLE other (id int); SELECT create_distributed_table('other', 'id'); INSERT INTO other VALUES (1), (2);
	$count; ROLLBACK") =~ s/\s//gr, $pairs, 'a transaction that wrote to another table');
is(sql("BEGIN ISOLATION LEVEL REPEATABLE READ; $count; $count; COMMIT"), "$pairs\n$pairs", 'repeatable read');

# --- a worker reads later than the session

my $function = 'fasted_citus.join_slice';
make_late($workers[2], $function);
is(sql($count), $pairs, 'with a late worker the result is the same');

sub late { my ($name, @changes) = @_; changes_before_late_read($node, $workers[2], $name, 'items', $count, @changes); }

late('a row is inserted', "INSERT INTO items VALUES (2001, '{-50}')", 'DELETE FROM items WHERE id = 2001');
late('a vector changes', "UPDATE items SET v = '{-50}' WHERE id = 7", "UPDATE items SET v = '{70}' WHERE id = 7");
my $swap = 'UPDATE items SET v = ARRAY[150 - v[1]]::real[] WHERE id IN (7, 8)';
late('two rows swap', $swap, $swap);
make_prompt($workers[2], $function);
is(sql($count), $pairs, 'without the delay the result is the same as before');

# --- continuous writes: a row moves between clusters of equal shape, so that all states
# of the table have the same number of pairs

sql("DELETE FROM items WHERE id = 2000; INSERT INTO items VALUES (2000, '{0}')");
my $state = sql($count);
sql(<<'END');
CREATE PROCEDURE write(rounds int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..rounds LOOP
		UPDATE items SET v = ARRAY[(i * 37) % 99 * 10 + 10] WHERE id = 2000;
		COMMIT;
		PERFORM pg_sleep(0.15);
	END LOOP;
END $$;
END
sql("UPDATE items SET v = '{10}' WHERE id = 2000");
$state = sql($count);
my $writer = FastedTest::Session->new($node);
$writer->send("CALL write(1000);");
my %seen;
for (1 .. 40)
{
	my ($status, $out, $err) = $node->psql('postgres', $count);
	$seen{ $status == 0 ? $out : $err =~ /concurrent writes/ ? 'failure' : $err }++;
}
my $moves = join(', ', map { "$_: $seen{$_}" } sort keys %seen);
diag("concurrent writes: $moves");
is(join(' ', grep { $_ ne 'failure' && $_ ne $state } keys %seen), '', 'each result is right or a serialization failure');
$node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $writer->pid . ')');

done_testing();
