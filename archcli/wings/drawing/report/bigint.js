// Whole numbers without a bound, for the closed forms that archcli prints: all arguments are BigInt.
const power = (base, exponent) => base ** exponent;
// BigInt's own division cuts towards 0; this one rounds down, as Python's // does
const quotient = (over, under) => {
  const cut = over / under;
  return over % under !== 0n && (over < 0n) !== (under < 0n) ? cut - 1n : cut;
};
const remainder = (over, under) => over - under * quotient(over, under);
const least = (...numbers) => numbers.reduce((a, b) => (b < a ? b : a));
const most = (...numbers) => numbers.reduce((a, b) => (b > a ? b : a));
// the logarithm to the base 2, rounded up: the binary digits of n - 1
const binary = (n) => (n <= 1n ? 0n : BigInt((n - 1n).toString(2).length));
// the one result that is no BigInt: a share
const ratio = (over, under) => Number(over) / Number(under);
// the sizes, and the steps of a model's script at them: what its forms are functions of
const stepped = (script, sizes) => {
  const s = { ...sizes };
  for (const [name, short] of Object.entries(script.names ?? {})) s[short] = sizes[name];
  script.steps.forEach((step, i) => {
    s[`_${i}`] = step(s);
  });
  return s;
};
