-- The type fasted_ball.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS fasted;
RESET client_min_messages;

SELECT fasted_ball('{1,2.5}'::real[], 0.5), fasted_ball('{1,1e300}'::float8[], 0), ' <{3,4}, 5> '::fasted_ball;
-- at the sum of the radii
SELECT fasted_ball('{0,0}'::real[], 2) && fasted_ball('{3,4}'::float8[], 3) AS touch, '<{0,0},2>' && '<{3,4},2.999>'::fasted_ball AS apart;
SELECT '<{1,2}>'::fasted_ball;
SELECT '{1,2},3'::fasted_ball;
SELECT '<{1,2},x>'::fasted_ball;
SELECT '<{},1>'::fasted_ball;
SELECT fasted_ball('{1,NULL}'::real[], 1);
SELECT fasted_ball('{1,Infinity}'::real[], 1);
SELECT fasted_ball('{1,2}'::real[], -1);
SELECT fasted_ball('{1,2}'::real[], 'NaN');
SELECT '<{1,2},1>'::fasted_ball && '<{1,2,3},1>';
-- balls of conditions never raise an error, if the vector has one of these types
SELECT fasted_internal.index_ball('{1,2}'::float8[], -3, '-Infinity'), fasted_internal.index_ball('{1,2}'::float8[], -3, 0) AS below, fasted_internal.index_ball('{1,2}'::float8[], 'NaN', 0) AS nan,
	fasted_internal.index_ball('{1,NULL}'::float8[], 3, 0) AS without, fasted_internal.index_ball('{}'::float8[], 3, 0) AS empty, fasted_internal.index_ball(NULL::float8[], 3, 0) IS NULL AS unknown,
	fasted_internal.index_ball(B'0110', 2, 0) AS bits;
SELECT fasted_internal.index_ball(1, 2, 0);
