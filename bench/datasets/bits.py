"""Data sets of bits: uint8 (n, bytes), with the most significant bit first, as in PostgreSQL's bit type.

    bench/datasets/make.py molecules wallpaper-hashes debian-simhash

molecules: Morgan fingerprints of a combinatorial library, radius 2, 2048 bits.  The 5000
molecules of the National Cancer Institute that RDKit contains are cut at each bond that the
BRICS rules name, into two ends.  A molecule of the library is a core, that is, an end of at
least CORE heavy atoms, and a substituent of at most SUBSTITUENT heavy atoms, joined at a bond
that the rules allow.  Libraries of this kind are what vendors sell and chemists search.

wallpaper-hashes: perceptual hashes of crops of the photographs of wallpaper-sift, 64 bits: the
signs of the 64 lowest frequencies of the cosine transform of 32 x 32 grey pixels, compared
with their median.  Crops overlap, so that near-duplicates exist.

debian-simhash: SimHash of the sentences of Debian's package descriptions, 64 bits: the signs of
the sums of the hashes of all words and pairs of adjacent words.

fingerprints (generated): 2048 bits that imitate molecules, for any number of rows.  A row has
the bits of one of n / 50 cores and of one of 2000 substituents, and a few of its own.

All rows are in random order, with the seed SEED.  molecules needs RDKit (PyPI: rdkit), and
wallpaper-hashes needs python3-opencv.
"""
import hashlib
import multiprocessing
import os
import re

import numpy

from . import debian_text, files, manifest, sentences, wallpaper_sift

SEED = 1
GENERATED = "fingerprints"
BITS = {"molecules": 2048, "wallpaper-hashes": 64, "debian-simhash": 64, GENERATED: 2048}
ROWS = 1000000                          # default number of rows of the generated fingerprints
MOLECULES = 100000
CORE, SUBSTITUENT, LARGEST = 12, 8, 40  # numbers of heavy atoms; larger molecules are left out
CROPS = 4000                            # of each photograph
SUBSTITUENTS = 2000                     # of the generated fingerprints


def save(data, name, rows, **more):
    rows = rows[numpy.random.default_rng(SEED).permutation(len(rows))]
    path = data / f"{name}.npy"
    files.write(path, [rows])
    return manifest.write(data, name, path, rows.shape, **more)


# --- molecules

def ends_of(molecule):
    """Yields the two ends at each bond that the BRICS rules cut, as SMILES with one labelled dummy atom each."""
    from rdkit import Chem
    from rdkit.Chem import BRICS
    for (i, j), labels in BRICS.FindBRICSBonds(molecule):
        bond = molecule.GetBondBetweenAtoms(i, j).GetIdx()
        numbers = tuple(int(re.match(r"\d+", label)[0]) for label in labels)
        parts = Chem.GetMolFrags(Chem.FragmentOnBonds(molecule, [bond], dummyLabels=[numbers]), asMols=True)
        yield from (text for text in map(Chem.MolToSmiles, parts) if text.count("*") == 1)


def joined(core, substituent):
    """Returns the molecule of two ends, or None if it is invalid."""
    from rdkit import Chem
    ends = Chem.CombineMols(core, substituent)
    dummies = [atom.GetIdx() for atom in ends.GetAtoms() if atom.GetAtomicNum() == 0]
    neighbours = [ends.GetAtomWithIdx(i).GetNeighbors()[0].GetIdx() for i in dummies]
    whole = Chem.RWMol(ends)
    whole.AddBond(*neighbours, Chem.BondType.SINGLE)
    for i in sorted(dummies, reverse=True):
        whole.RemoveAtom(i)
    return whole if Chem.SanitizeMol(whole, catchErrors=True) == 0 else None


def library():
    """Returns ([core], {label: [substituents]}) as molecules with one dummy atom each."""
    from rdkit import Chem, RDConfig, RDLogger
    RDLogger.DisableLog("rdApp.*")
    cores, substituents = [], {}
    with open(os.path.join(RDConfig.RDDataDir, "NCI", "first_5K.smi"), encoding="ascii") as file:
        read = [Chem.MolFromSmiles(line.split()[0]) for line in file]
    texts = sorted({text for molecule in read if molecule is not None and molecule.GetNumHeavyAtoms() <= LARGEST
                    for text in ends_of(molecule)})
    for text in texts:
        end = Chem.MolFromSmiles(text)
        if end is None or "." in text:
            continue
        if end.GetNumHeavyAtoms() - 1 >= CORE:
            cores.append(end)
        elif end.GetNumHeavyAtoms() - 1 <= SUBSTITUENT:
            substituents.setdefault(label_of(end), []).append(end)
    return cores, substituents


def label_of(end):
    return next(atom.GetIsotope() for atom in end.GetAtoms() if atom.GetAtomicNum() == 0)


def partners(label):
    """Returns the labels that the BRICS rules join with this one."""
    from rdkit.Chem import BRICS
    pairs = [re.findall(r"\d+", f"{a} {b}")[:2] for rules in BRICS.reactionDefs for a, b, _ in rules]
    return {int(b) for a, b in pairs if int(a) == label} | {int(a) for a, b in pairs if int(b) == label}


def some_molecules(job):
    """Returns the fingerprints of a part of the library: uint8 (n, 256)."""
    from rdkit.Chem import rdFingerprintGenerator
    number, n = job
    cores, substituents = library()
    allowed = [[s for label in sorted(partners(label_of(core))) for s in substituents.get(label, [])] for core in cores]
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=BITS["molecules"])
    random = numpy.random.default_rng([SEED, number])
    rows = []
    while len(rows) < n:
        i = random.integers(len(cores))
        if allowed[i] and (whole := joined(cores[i], allowed[i][random.integers(len(allowed[i]))])) is not None:
            rows.append(numpy.packbits(generator.GetFingerprintAsNumPy(whole)))
    return numpy.array(rows)


def make_molecules(data):
    """Makes the data set in the folder data; returns its manifest."""
    import rdkit
    parts = 8
    with multiprocessing.Pool() as pool:
        rows = numpy.concatenate(pool.map(some_molecules, [(i, MOLECULES // parts) for i in range(parts)], chunksize=1))
    return save(data, "molecules", rows, rdkit=rdkit.__version__)


# --- perceptual hashes of photographs

def hashes_of(path):
    """Returns the hashes of random crops of a photograph: uint8 (CROPS, 8)."""
    import cv2
    cv2.setNumThreads(1)
    picture = wallpaper_sift.grey(path)
    if picture is None:
        return numpy.empty((0, 8), numpy.uint8)
    random = numpy.random.default_rng([SEED, int(hashlib.sha256(path.name.encode()).hexdigest()[:8], 16)])
    edge = min(picture.shape)
    rows = []
    for size in random.integers(edge // 8, edge // 2, CROPS):
        top, left = (random.integers(0, length - size + 1) for length in picture.shape)
        small = cv2.resize(picture[top:top + size, left:left + size], (32, 32), interpolation=cv2.INTER_AREA)
        low = cv2.dct(small.astype(numpy.float32))[:8, :8].ravel()
        rows.append(numpy.packbits(low > numpy.median(low)))
    return numpy.array(rows)


def make_hashes(data):
    """Makes the data set in the folder data; returns its manifest."""
    import cv2
    sources = data / f"{wallpaper_sift.NAME}.sources"
    pictures = wallpaper_sift.unpack(sources, wallpaper_sift.fetch(sources))
    with multiprocessing.Pool() as pool:
        rows = numpy.concatenate(pool.map(hashes_of, pictures, chunksize=1))
    return save(data, "wallpaper-hashes", rows, opencv=cv2.__version__)


# --- SimHash of texts

def simhash(text):
    """Returns the 64 bits of a text."""
    words = re.findall(r"\w+", text.lower())
    parts = [*words, *(" ".join(pair) for pair in zip(words, words[1:]))]
    digests = numpy.array([list(hashlib.blake2b(part.encode(), digest_size=8).digest()) for part in parts], numpy.uint8)
    bits = numpy.unpackbits(digests, axis=1).astype(int)
    return numpy.packbits(2 * bits.sum(0) > len(parts))


def make_simhash(data):
    """Makes the data set in the folder data; returns its manifest."""
    found, sources = debian_text.texts(data)
    rows = numpy.array([simhash(text) for text in sentences.sentences(found[name] for name in sorted(found))])
    return save(data, "debian-simhash", rows, descriptions=sources)


# --- generated

def pattern(random, count, most):
    """Returns boolean (count, 2048): about `most` bits, of which low numbers are more frequent, as in real fingerprints."""
    bits = BITS[GENERATED]
    rank = random.permutation(bits)
    weight = 1 / (10.0 + numpy.arange(bits))
    chosen = rank[random.choice(bits, (count, most), p=weight / weight.sum())]
    rows = numpy.zeros((count, bits), bool)
    rows[numpy.arange(count)[:, None], chosen] = True
    return rows


def fingerprints(rows):
    """Returns generated fingerprints: uint8 (rows, 256)."""
    random = numpy.random.default_rng(SEED)
    cores = numpy.packbits(pattern(random, max(1, rows // 50), 40), axis=1)
    substituents = numpy.packbits(pattern(random, SUBSTITUENTS, 10), axis=1)
    result = cores[random.integers(len(cores), size=rows)] | substituents[random.integers(SUBSTITUENTS, size=rows)]
    for _ in range(2):
        bit = random.integers(BITS[GENERATED], size=rows)
        result[numpy.arange(rows), bit // 8] |= (128 >> bit % 8).astype(numpy.uint8)
    return result
