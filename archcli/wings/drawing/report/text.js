// Numbers as text, digit for digit as archcli's tables write them.
const COUNTS = ["", "K", "M", "B", "T"];
const PREFIXES = ["", "K", "M", "G", "T", "P", "E", "Z", "Y"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];

const grouped = (text) => {
  const [whole, rest] = text.split(".");
  const commas = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? commas : `${commas}.${rest}`;
};
const exact = (number) => grouped(String(number));

// toFixed rounds a half upwards, Python to the even neighbour
const fixed = (number, places) => {
  const text = number.toFixed(places);
  if (Math.abs(number) >= 1e15) return text;
  const [whole, rest] = number.toFixed(60).split(".");
  const isHalf = /^50*$/.test(rest.slice(places));
  if (!isHalf) return text;
  const kept = places ? `${whole}.${rest.slice(0, places)}` : whole;
  return Number(kept.at(-1)) % 2 === 0 ? kept : text;
};

// three figures: 4.38, 43.8, 438
const decimals = (number) => (Math.abs(number) < 9.995) + (Math.abs(number) < 99.95);

// the float nearest to a quotient of BigInts: 58 digits of it, and one that says whether there are more
const divided = (over, under) => {
  const digits = (number) => number.toString(2).length;
  const shift = BigInt(Math.max(0, 58 + digits(under) - digits(over)));
  const cut = (over << shift) / under;
  const isCut = cut * under !== over << shift;
  return Number(2n * cut + (isCut ? 1n : 0n)) / 2 ** Number(shift + 1n);
};

const scaled = (number, base, prefixes, gap) => {
  const value = Number(number);
  let power = 0;
  const at = (n) => (typeof number === "bigint" ? divided(number, BigInt(base) ** BigInt(n)) : value / base ** n);
  while (power + 1 < prefixes.length && Number(fixed(Math.abs(at(power)), decimals(at(power)))) >= 1000) power += 1;
  const shown = at(power);
  const text = fixed(shown, power ? decimals(shown) : Number.isInteger(value) ? 0 : 1);
  return `${Math.abs(shown) < 1e6 ? grouped(text) : shown.toExponential(2).replace(/e\+?(\d)$/, "e+0$1")}${gap}${prefixes[power]}`;
};

const written = (number, unit) => {
  const plain = exact(number);
  if (unit === "whole") return plain;
  if (unit === "share") return `${fixed(100 * Number(number), 1)}%`;
  if (Number(number) === 0) return plain;
  if (unit === "bytes") return `${scaled(number, 1024, BINARY, " ")}B`;
  if (unit === "flops") return `${scaled(number, 1000, PREFIXES, " ")}FLOP`;
  return Number(number) >= 10000 ? scaled(number, 1000, COUNTS, "") : plain;
};

// 4096, 4,096, 8k (8,000) and 8K (8,192), as the command line reads them; null for anything else
const UNITS = { "": 1n, k: 1000n, K: 1024n, M: 10n ** 6n, G: 10n ** 9n, B: 10n ** 9n, T: 10n ** 12n };
UNITS.Ki = 1024n;
UNITS.Mi = 1024n ** 2n;
UNITS.Gi = 1024n ** 3n;
UNITS.Ti = 1024n ** 4n;
const wholeNumber = (text) => {
  const found = /^(\d{1,30})([kKMGBT]|[KMGT]i)?$/.exec(text.replace(/[\s,_]/g, ""));
  return found ? BigInt(found[1]) * UNITS[found[2] || ""] : null;
};
