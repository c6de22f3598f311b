// What naic does to the pixels of an image before the network, bit for bit: Pillow's bicubic
// resampling with antialiasing, in its fixed-point arithmetic, after what its JPEG decoder leaves out.

const BITS = 22; // of a coefficient after the point: 8 of a colour and 2 of overshoot fit beside them
const REACH = 2; // pixels to each side that a bicubic looks at when it does not shrink

/** RGBA (height, width) squashed to RGB (side, side), nothing cropped. */
export function squared(rgba, width, height, side) {
  const rgb = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < rgb.length; from += 4, to += 3) {
    rgb[to] = rgba[from];
    rgb[to + 1] = rgba[from + 1];
    rgb[to + 2] = rgba[from + 2];
  }
  // Of a tall image Pillow, since version 13, shrinks the height first.
  const tall = height > side && height - side > 2 * (width - side);
  return tall
    ? across(down(rgb, width, height, side), width, side, side)
    : down(across(rgb, width, height, side), side, height, side);
}

function across(rgb, width, height, side) {
  return width === side ? rgb : resample(rgb, height, width, side, width * 3, 3, side * 3, 3);
}

function down(rgb, width, height, side) {
  return height === side ? rgb : resample(rgb, width, height, side, 3, width * 3, 3, width * 3);
}

/** By how much a JPEG is shrunk while it is decoded: 8, 4, 2 or 1, so that `side` pixels stay. */
export function reduction(width, height, side) {
  const room = Math.floor(Math.min(width, height) / side);
  return [8, 4, 2].find((factor) => room >= factor) ?? 1;
}

/**
 * RGBA with each square of factor x factor pixels averaged, as libjpeg-turbo decodes at 1/factor:
 * its short inverse transforms give the averages of what the long one gives.
 */
export function averaged(rgba, width, height, factor) {
  const wide = Math.ceil(width / factor);
  const high = Math.ceil(height / factor);
  const out = new Uint8ClampedArray(wide * high * 4).fill(255);
  for (let y = 0; y < high; y++) {
    const bottom = Math.min((y + 1) * factor, height);
    for (let x = 0; x < wide; x++) {
      const right = Math.min((x + 1) * factor, width);
      let red = 0, green = 0, blue = 0;
      for (let row = y * factor; row < bottom; row++) {
        for (let at = (row * width + x * factor) * 4; at < (row * width + right) * 4; at += 4) {
          red += rgba[at];
          green += rgba[at + 1];
          blue += rgba[at + 2];
        }
      }
      const count = (bottom - y * factor) * (right - x * factor);
      const to = (y * wide + x) * 4;
      out[to] = red / count; // a clamped array rounds
      out[to + 1] = green / count;
      out[to + 2] = blue / count;
    }
  }
  return { pixels: out, width: wide, height: high };
}

/**
 * `lines` lines of `size` pixels to lines of `wanted` pixels; a line and a pixel are so many bytes
 * further on in the source (`line`, `step`) and in the result (`lineTo`, `stepTo`).
 */
function resample(source, lines, size, wanted, line, step, lineTo, stepTo) {
  const out = new Uint8Array(lines * wanted * 3);
  for (let place = 0; place < wanted; place++) {
    const { first, weights } = weightsOf(place, size, wanted);
    for (let number = 0; number < lines; number++) {
      const start = number * line + first * step;
      let red = 1 << (BITS - 1), green = red, blue = red; // a half, to round
      for (let i = 0, at = start; i < weights.length; i++, at += step) {
        const weight = weights[i];
        red += source[at] * weight;
        green += source[at + 1] * weight;
        blue += source[at + 2] * weight;
      }
      const to = number * lineTo + place * stepTo;
      out[to] = clipped(red);
      out[to + 1] = clipped(green);
      out[to + 2] = clipped(blue);
    }
  }
  return out;
}

/** The first pixel that counts for a place of the result, and the weights from there on. */
function weightsOf(place, size, wanted) {
  const scale = size / wanted;
  const shrink = Math.max(scale, 1);
  const support = REACH * shrink;
  const centre = (place + 0.5) * scale;
  const first = Math.max(Math.trunc(centre - support + 0.5), 0);
  const end = Math.min(Math.trunc(centre + support + 0.5), size);
  const exact = [];
  for (let at = first; at < end; at++) exact.push(bicubic((at - centre + 0.5) * (1 / shrink)));
  const sum = exact.reduce((total, weight) => total + weight, 0);
  const weights = Int32Array.from(exact, (weight) => {
    const scaled = (weight / sum) * (1 << BITS);
    return Math.trunc(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  });
  return { first, weights };
}

/** Keys' cubic with a = -1/2. */
function bicubic(distance) {
  const a = -0.5;
  const x = Math.abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

function clipped(sum) {
  const value = sum >> BITS;
  return value < 0 ? 0 : value > 255 ? 255 : value;
}
