/* What is read of a file: a text whole, of a GGUF or safetensors file its header alone, by slices. */

const LARGEST_TEXT = 8 << 20;
const LARGEST_HEADER = 64 << 20;
const STEP = 1 << 20;
const WIDTHS = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
const [STRING, ARRAY] = [8, 9];
const TOO_LARGE = "its header is larger than 64 MiB";

const bytesOf = async (file, from, to) => new Uint8Array(await file.slice(from, to).arrayBuffer());

/* Reads numbers of a file that is fetched by a MiB at a time. */
class Header {
  constructor(file) {
    this.file = file;
    this.bytes = new Uint8Array();
    this.at = 0;
  }
  async need(count) {
    const end = this.at + count;
    if (end > this.file.size) throw new RangeError("short");
    if (end > LARGEST_HEADER) throw new Error(TOO_LARGE);
    if (end <= this.bytes.length) return;
    this.bytes = await bytesOf(this.file, 0, Math.min(this.file.size, Math.max(end, this.bytes.length * 2, STEP)));
    this.view = new DataView(this.bytes.buffer);
  }
  async u32() {
    if (this.at + 4 > this.bytes.length) await this.need(4);
    this.at += 4;
    return this.view.getUint32(this.at - 4, true);
  }
  async u64() {
    if (this.at + 8 > this.bytes.length) await this.need(8);
    this.at += 8;
    return Number(this.view.getBigUint64(this.at - 8, true));
  }
  async skip(count) {
    await this.need(count);
    this.at += count;
  }
  async text() {
    await this.skip(await this.u64());
  }
  async texts(count) {
    for (let i = 0; i < count; i += 1) {
      // without await where the bytes are there: a vocabulary has 250,000
      if (this.at + 8 > this.bytes.length) await this.need(8);
      const length = Number(this.view.getBigUint64(this.at, true)) + 8;
      if (this.at + length > this.bytes.length) await this.need(length);
      this.at += length;
    }
  }
  async value(kind) {
    if (kind === STRING) return this.text();
    if (kind !== ARRAY) return this.skip(width(kind));
    const [of, count] = [await this.u32(), await this.u64()];
    return of === STRING ? this.texts(count) : this.skip(count * width(of));
  }
}

const width = (kind) => {
  if (!WIDTHS[kind]) throw new RangeError("kind");
  return WIDTHS[kind];
};

/* Where the header of a GGUF file ends; the layout is told in archcli/load/gguf/header.py. */
const endOfGguf = async (file) => {
  const header = new Header(file);
  await header.skip(8);
  const [tensors, keys] = [await header.u64(), await header.u64()];
  for (let i = 0; i < keys; i += 1) {
    await header.text();
    await header.value(await header.u32());
  }
  for (let i = 0; i < tensors; i += 1) {
    await header.text();
    await header.skip(8 * (await header.u32()) + 12);
  }
  return header.at;
};

const gguf = async (file) => {
  try {
    return await bytesOf(file, 0, await endOfGguf(file));
  } catch (problem) {
    if (!(problem instanceof RangeError)) throw problem;
    // damaged: archcli says what is wrong with it
    return bytesOf(file, 0, STEP);
  }
};

const safetensors = async (file) => {
  const start = await bytesOf(file, 0, 8);
  const length = start.length < 8 ? 0 : Number(new DataView(start.buffer).getBigUint64(0, true));
  if (length > LARGEST_HEADER) return bytesOf(file, 0, STEP);
  return bytesOf(file, 0, 8 + length);
};

/* {content, read}: the text or the header's bytes, and how many bytes were read. An Error for what is neither. */
export const readLocally = async (file) => {
  const start = new TextDecoder("latin1").decode(await bytesOf(file, 0, 4));
  const isGguf = start === "GGUF" || /\.gguf$/i.test(file.name);
  const isHeader = isGguf || /\.safetensors$/i.test(file.name);
  if (!isHeader && file.size > LARGEST_TEXT) {
    const size = (file.size / 2 ** 20).toFixed(0);
    throw new Error(`${file.name} has ${size} MiB, and no config.json or YAML is larger than 8: it was not read.`);
  }
  if (!isHeader) {
    const bytes = await bytesOf(file, 0, file.size);
    return { content: asText(bytes), read: bytes.length };
  }
  const bytes = await (isGguf ? gguf(file) : safetensors(file)).catch((problem) => {
    throw new Error(`${file.name}: ${problem.message}`);
  });
  return { content: bytes, read: bytes.length };
};

/* UTF-8 as text, which fits into a link; other bytes stay bytes, so that archcli says what they are. */
const asText = (bytes) => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes;
  }
};
