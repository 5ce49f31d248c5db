//go:build race

package lane

// Raced says that the tests look for data races, which makes them about five times
// slower: repetitions that find no further races may be fewer.
const Raced = true
