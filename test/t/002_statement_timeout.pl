# statement_timeout in the middle of the computation.
use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use FastedTest;
use Test::More;

my $node = new_node('timeout', "fasted.threads = 1\n");
create_wide_views($node);

my $session = FastedTest::Session->new($node);
my $limit_ms = sanitized() ? 2000 : 100;
my $best;
my $output;
for my $try (1 .. 3)
{
	$output = $session->query(<<'END');
SET statement_timeout = '1200ms';
SELECT clock_timestamp() AS begun \gset
SELECT count(*) FROM fasted_self_join('wide', 'v', 0.5, 'id');
\echo state :SQLSTATE
SELECT 'late by ' || (extract(epoch FROM clock_timestamp() - :'begun') * 1000 - 1200);
RESET statement_timeout;
SELECT 'after: ' || count(*) FROM fasted_self_join('small', 'v', 1)
END
	my ($ms) = $output =~ /^late by (-?[\d.]+)/m;
	$best = $ms if !defined $best || $ms < $best;
	last if $best < $limit_ms;
}
like($output, qr/^state 57014$/m, 'the statement times out');
cmp_ok($best, '<', $limit_ms, "late by less than $limit_ms ms");
is(thread_count($session->pid), 1, 'no thread is left');
like($output, qr/^after: 99$/m, 'the session works on');
$session->quit;

$node->stop;
done_testing();
