// Package script reads the command lines of a simulated shell: words with quotes and variables,
// assignments, redirects, pipes, and what "&&", "||" and ";" say about the order. What is beyond
// that is marked, not guessed at. It runs nothing and imports nothing of the project.
package script
