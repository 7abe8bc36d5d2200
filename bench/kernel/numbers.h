/*-------------------------------------------------------------------------
 *
 * numbers.h
 *	  Medians, and comma-separated lists in command-line arguments.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FASTED_BENCH_NUMBERS_H
#define FASTED_BENCH_NUMBERS_H

#include <algorithm>
#include <string>
#include <vector>

namespace bench
{

/* Returns the median; the upper one if the number of values is even. */
inline double
median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

/* Splits a comma-separated list. */
inline std::vector<std::string>
split(const char *text)
{
	std::vector<std::string> parts;
	std::string rest = text;

	while (!rest.empty())
	{
		size_t		comma = std::min(rest.find(','), rest.size());

		parts.push_back(rest.substr(0, comma));
		rest = comma < rest.size() ? rest.substr(comma + 1) : "";
	}
	return parts;
}

}								/* namespace bench */

#endif							/* FASTED_BENCH_NUMBERS_H */
