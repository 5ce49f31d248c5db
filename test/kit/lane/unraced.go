//go:build !race

package lane

// Raced says that the tests look for data races.
const Raced = false
